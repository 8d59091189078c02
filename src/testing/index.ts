export type { FakeClockStart } from "./fake-clock.ts";
export { FakeClock } from "./fake-clock.ts";
export { FakeRandom } from "./fake-random.ts";
