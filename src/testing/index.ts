export { describeDriverContract } from "./driver-contract/describe-driver-contract.ts";
export type {
  ContractRunner,
  DriverFixture,
  OpenedDriver,
} from "./driver-contract/fixture.ts";
export type { FakeClockStart } from "./fake-clock.ts";
export { FakeClock } from "./fake-clock.ts";
export { FakeRandom } from "./fake-random.ts";
export { describeFaultContract } from "./fault-contract/describe-fault-contract.ts";
export { describeGuardContract } from "./guard-contract/describe-guard-contract.ts";
export type {
  FencedRows,
  GuardFixture,
  GuardUnderTest,
  OpenedResource,
  OpenTransaction,
} from "./guard-contract/fixture.ts";
