export type { FileGuard } from "./guard.ts";
export { fileGuard } from "./guard.ts";
export type { FileStore, FileTransaction } from "./store.ts";
export { fileStore } from "./store.ts";
