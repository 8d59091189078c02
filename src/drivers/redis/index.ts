export type { IoredisClient, NodeRedisClient, RedisClient } from "./client.ts";
export type { RedisCapabilities, RedisEfficiencyCapabilities } from "./driver.ts";
export { redisDriver } from "./driver.ts";
export type { RedisDriverOptions } from "./options.ts";
