/** The database's file: made without ever opening and closing it beside SQLite, and told apart from its successors. */
import {
  accessSync,
  closeSync,
  constants,
  linkSync,
  mkdirSync,
  openSync,
  rmSync,
  statfsSync,
  statSync,
} from "node:fs";
import { dirname } from "node:path";
import { DriverError } from "../../core/driver.ts";

/** Device and inode: which file a path leads to now; `null` when there is none. */
export function fileIdentity(path: string): string | null {
  // Big numbers: inode numbers of some file systems (overlayfs, virtiofs) use all 64 bits.
  const found = statSync(path, { bigint: true, throwIfNoEntry: false });
  return found === undefined ? null : `${found.dev.toString()}:${found.ino.toString()}`;
}

/**
 * Makes the question whether a path still leads to the file of this identity (`null`: to none). Every step asks it, so
 * the identity is taken apart once: to compare numbers costs nothing beside looking, to make their text as much again.
 */
export function leadsTo(path: string, identity: string | null): () => boolean {
  const [dev = NaN, ino = NaN] = (identity ?? "").split(":").map(Number);
  const exact = Number.isSafeInteger(dev) && Number.isSafeInteger(ino);
  return () => {
    const found = statSync(path, { throwIfNoEntry: false });
    if (found === undefined) return identity === null;
    // A number beyond 2^53 may be rounded, and then two files look like one. Big numbers cost half as much again.
    return exact ? found.dev === dev && found.ino === ino : fileIdentity(path) === identity;
  };
}

/**
 * Makes the folder (mode 0700) and an empty file (mode 0600) where there are none. With `create: false` a missing file
 * is a config error.
 *
 * The file is made under another name and linked: closing any descriptor of a database drops the POSIX locks that this
 * process has on it through SQLite, so the real path is never opened here.
 */
export function prepareFile(path: string, create: boolean, unique: string): void {
  if (fileIdentity(path) === null) {
    if (!create)
      throw new DriverError(
        "config",
        "not-applied",
        `The lock file ${path} does not exist and \`autoCreate\` is false: make it with the statements of \`ringfence schema\``,
      );
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    const draft = `${path}.new-${unique}`;
    closeSync(openSync(draft, "wx", 0o600));
    try {
      linkSync(draft, path);
    } catch (error) {
      linkFailed(error, path);
    } finally {
      rmSync(draft, { force: true });
    }
  }
  accessSync(path, constants.R_OK | constants.W_OK);
}

function linkFailed(error: unknown, path: string): void {
  const { code } = error as NodeJS.ErrnoException;
  if (code === "EEXIST") return;
  if (code !== "EPERM" && code !== "ENOTSUP" && code !== "EOPNOTSUPP" && code !== "ENOSYS")
    throw error;
  // No hard links here (FAT, some FUSE): the file is surely new, so nobody has a lock on it to lose.
  try {
    closeSync(openSync(path, "wx", 0o600));
  } catch (second) {
    if ((second as NodeJS.ErrnoException).code !== "EEXIST") throw second;
  }
}

/** Whether other hosts can see the files of a file system: no, yes, or nobody can tell. */
export type Sharing = "local" | "network" | "unknown";

/** Magic numbers of statfs(2) on Linux. overlayfs is as local as the layers that containers put under it. */
const FILE_SYSTEMS: ReadonlyMap<number, readonly [string, Sharing]> = new Map<
  number,
  readonly [string, Sharing]
>([
  [0xef53, ["ext4", "local"]],
  [0x58465342, ["xfs", "local"]],
  [0x9123683e, ["btrfs", "local"]],
  [0x01021994, ["tmpfs", "local"]],
  [0x858458f6, ["ramfs", "local"]],
  [0x794c7630, ["overlayfs", "local"]],
  [0x61756673, ["aufs", "local"]],
  [0x2fc12fc1, ["zfs", "local"]],
  [0xf2f52010, ["f2fs", "local"]],
  [0xca451a4e, ["bcachefs", "local"]],
  [0x3153464a, ["jfs", "local"]],
  [0x52654973, ["reiserfs", "local"]],
  [0x3434, ["nilfs2", "local"]],
  [0xf15f, ["ecryptfs", "local"]],
  [0x4d44, ["vfat", "local"]],
  [0x2011bab0, ["exfat", "local"]],
  [0x7366746e, ["ntfs3", "local"]],
  [0x6969, ["nfs", "network"]],
  [0x517b, ["smb", "network"]],
  [0xff534d42, ["cifs", "network"]],
  [0xfe534d42, ["smb2", "network"]],
  [0x00c36400, ["ceph", "network"]],
  [0x5346414f, ["afs", "network"]],
  [0x6b414653, ["kafs", "network"]],
  [0x73757245, ["coda", "network"]],
  [0x564c, ["ncpfs", "network"]],
  [0x01161970, ["gfs2", "network"]],
  [0x7461636f, ["ocfs2", "network"]],
  [0x0bd00bd0, ["lustre", "network"]],
  [0x47504653, ["gpfs", "network"]],
  [0x19830326, ["beegfs", "network"]],
  [0xaad7aaea, ["panfs", "network"]],
  [0x20030528, ["orangefs", "network"]],
  [0x01021997, ["9p", "unknown"]],
  [0x65735546, ["fuse or virtiofs", "unknown"]],
  [0x786f4256, ["vboxsf", "unknown"]],
  [0xbacbacbc, ["vmhgfs", "unknown"]],
]);

/** What kind of file system a statfs type is. Numbers mean this on Linux only; elsewhere everything is unknown. */
export function fileSystemOf(type: number, platform: string): { name: string; sharing: Sharing } {
  const known = platform === "linux" ? FILE_SYSTEMS.get(type >>> 0) : undefined;
  const [name, sharing] = known ?? [`type 0x${(type >>> 0).toString(16)}`, "unknown"];
  return { name, sharing };
}

/** The file system that `path` is on. @throws DriverError on one that several hosts share: their clocks differ */
export function localFileSystem(path: string): { name: string; sharing: Sharing } {
  const found = fileSystemOf(statfsSync(path).type, process.platform);
  if (found.sharing === "network")
    throw new DriverError(
      "config",
      "not-applied",
      `The lock file ${path} is on a network file system (${found.name}), where SQLite's locks and this host's clock protect nothing: put it on a local disk, or use a server (redis://, postgres://)`,
    );
  return found;
}
