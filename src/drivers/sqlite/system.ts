import { Bells } from "./bells.ts";
import { loadClient, type OpenDatabase } from "./client.ts";
import { fileIdentity, leadsTo, localFileSystem, prepareFile, type Sharing } from "./file.ts";

/** A process's doorbell and the way to everybody else's, as `Bells` has them. */
export type Doorbells = Pick<Bells, "listen" | "rest" | "ring" | "sweep" | "close" | "deaf">;

/**
 * What the driver asks of the machine under it besides SQL: the file, its file system, the doorbells. The production
 * driver has `SYSTEM`; a simulator lends another machine.
 */
export interface System {
  /** The SQLite of this machine. @throws DriverError where there is none */
  load(): Promise<{ readonly name: string; readonly open: OpenDatabase }>;
  /** Which file a path leads to now; `null` when there is none. */
  fileIdentity(path: string): string | null;
  /** Makes the question whether a path leads to the file of this identity (`null`: to none). */
  leadsTo(path: string, identity: string | null): () => boolean;
  prepareFile(path: string, create: boolean, unique: string): void;
  /** @throws DriverError on a network file system */
  localFileSystem(path: string): { readonly name: string; readonly sharing: Sharing };
  bells(parts: ConstructorParameters<typeof Bells>[0]): Doorbells;
}

/** This machine. */
export const SYSTEM: System = {
  load: loadClient,
  fileIdentity,
  leadsTo,
  prepareFile,
  localFileSystem,
  bells: (parts) => new Bells(parts),
};
