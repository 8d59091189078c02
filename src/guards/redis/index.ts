export type { IoredisConnection, NodeRedisConnection, RedisConnection } from "./client.ts";
export type { GuardedScript, RedisGuard } from "./guard.ts";
export { redisGuard } from "./guard.ts";
export type { RedisStore, RedisTransaction } from "./store.ts";
export { redisStore } from "./store.ts";
