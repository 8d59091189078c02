import type { BrokenDriver } from "./broken-driver.ts";
import { EXCLUSIVE_FAULTS } from "./exclusion.ts";
import { KEEPING_FAULTS } from "./keeping.ts";
import { PERMITS_FAULTS } from "./permits.ts";
import { QUEUE_FAULTS } from "./queue.ts";
import { RECORDS_FAULTS } from "./records.ts";
import { TOKENS_FAULTS } from "./tokens.ts";

/** Drivers that the contract must reject, each for the reason that is named. */
export const BROKEN_DRIVERS: readonly BrokenDriver[] = [
  ...EXCLUSIVE_FAULTS,
  ...TOKENS_FAULTS,
  ...KEEPING_FAULTS,
  ...QUEUE_FAULTS,
  ...PERMITS_FAULTS,
  ...RECORDS_FAULTS,
];
