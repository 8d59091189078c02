import { channel } from "node:diagnostics_channel";
import type { EventSink, LockEventName } from "../core/events.ts";

const NAMES: readonly LockEventName[] = [
  "requested",
  "acquired",
  "released",
  "renewed",
  "lost",
  "jeopardy",
  "safe",
  "waiting",
  "revoked",
  "refused",
];

const channels = new Map(NAMES.map((name) => [name, channel(`ringfence:${name}`)]));

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
