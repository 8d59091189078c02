export type { Fence, HttpGuardOptions, InnerGuard, Requirement } from "./checker.ts";
export type { FencedFetchOptions } from "./fetch.ts";
export { fencedFetch } from "./fetch.ts";
export type { HttpGuard, Route } from "./guard.ts";
export { httpGuard } from "./guard.ts";
export { SEQUENCER_HEADER } from "./header.ts";
export type { Problem } from "./problem.ts";
export { problemOf, staleFrom } from "./problem.ts";
