export type { MemoryCapabilities } from "./driver.ts";
export { memoryDriver } from "./driver.ts";
