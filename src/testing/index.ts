export { describeGuardContract } from "./guard-contract/describe-guard-contract.ts";
export type {
  FencedRows,
  GuardContractRunner,
  GuardFixture,
  GuardUnderTest,
  OpenedResource,
  OpenTransaction,
} from "./guard-contract/fixture.ts";
