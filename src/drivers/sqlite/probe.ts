import type { Finding } from "../../core/driver.ts";
import type { Opened } from "./open-store.ts";
import type { Settings } from "./options.ts";

/** What the open database and its place can keep of what the driver declares. */
export function findings(
  opened: Opened,
  settings: Settings,
  facts: { readonly client: string; readonly deaf: boolean },
): Finding[] {
  const found: Finding[] = [{ name: "client", value: facts.client, verdict: "ok" }];
  found.push(fileSystem(opened), journal(opened), synchronous(opened, settings));
  found.push(
    facts.deaf
      ? {
          name: "doorbell",
          value: "polls",
          verdict: "warn",
          advice:
            "No file watch can be had, so waiters learn of their turn up to a second late: raise fs.inotify.max_user_watches and max_user_instances",
        }
      : { name: "doorbell", value: "watch", verdict: "ok" },
  );
  return found;
}

function fileSystem({ fileSystem: { name, sharing } }: Opened): Finding {
  if (sharing === "local") return { name: "file-system", value: name, verdict: "ok" };
  return {
    name: "file-system",
    value: name,
    verdict: "warn",
    advice:
      "Other hosts may see this folder, and locks on it protect the processes of one host only. After a reboot, leases are honoured until their wall-clock end plus their ttl. A local disk has neither limit",
  };
}

function journal({ store: { client }, path }: Opened): Finding {
  const mode = String(client.pragma("journal_mode"));
  if (mode === "wal" || path === null) return { name: "journal_mode", value: mode, verdict: "ok" };
  return {
    name: "journal_mode",
    value: mode,
    verdict: "warn",
    advice: "Steps are several times faster with PRAGMA journal_mode = WAL",
  };
}

const LEVELS = ["off", "normal", "full", "extra"];

function synchronous({ store: { client }, path }: Opened, settings: Settings): Finding {
  const level = Number(client.pragma("synchronous"));
  const value = path === null ? "in memory" : (LEVELS[level] ?? String(level));
  if (settings.durability === "normal") return { name: "synchronous", value, verdict: "ok" };
  if (path !== null && level >= 2) return { name: "synchronous", value, verdict: "ok" };
  return {
    name: "synchronous",
    value,
    verdict: "refuse",
    advice:
      'Grants are not on disk when they are answered: `durability: "full"` needs a file, and PRAGMA synchronous = FULL on its connection',
  };
}
