export type { S3Client, S3Place } from "./client.ts";
export type { S3Guard } from "./guard.ts";
export { s3Guard } from "./guard.ts";
export type { S3Store, S3StoreOptions, S3Transaction } from "./store.ts";
export { s3Store } from "./store.ts";
