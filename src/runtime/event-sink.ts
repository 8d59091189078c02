import { channel } from "node:diagnostics_channel";
import type { EventSink, LockEventName } from "../core/events.ts";

const EVENTS: Readonly<Record<LockEventName, null>> = {
  requested: null,
  acquired: null,
  releasing: null,
  released: null,
  renewed: null,
  lost: null,
  jeopardy: null,
  safe: null,
  waiting: null,
  revoked: null,
  refused: null,
};

const channels = new Map(Object.keys(EVENTS).map((name) => [name, channel(`ringfence:${name}`)]));

/** Publishes every event on the diagnostics channel `ringfence:<event>`; costs nothing where nobody subscribed. */
export const diagnosticsSink: EventSink = {
  wants: (name) => channels.get(name)?.hasSubscribers ?? false,
  emit(event) {
    channels.get(event.type)?.publish(event);
  },
  listenerFailed(error) {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    process.emitWarning(`A listener of a lock event threw: ${text}`, "RingfenceListenerWarning");
  },
};
