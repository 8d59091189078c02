export type { MemoryGuard } from "./guard.ts";
export { memoryGuard } from "./guard.ts";
export type { MemoryStore, MemoryTransaction } from "./store.ts";
export { memoryStore } from "./store.ts";
