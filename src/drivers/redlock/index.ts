export type { IoredisClient, NodeRedisClient, RedisClient } from "../redis/client.ts";
export type { RedlockCapabilities, RedlockEfficiencyCapabilities } from "./driver.ts";
export { redlockDriver } from "./driver.ts";
export type { RedlockDriverOptions } from "./options.ts";
