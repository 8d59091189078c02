import { expect, it } from "vitest";
import { systemClock } from "../../src/runtime/system-clock.ts";

function hostMonotonic(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1000 + nanoseconds / 1e6;
}

it("its monotonic clock is the host's to the last digit, so that processes can compare it", () => {
  for (let n = 0; n < 1000; n += 1) {
    const before = hostMonotonic();
    const read = systemClock.mono();
    expect(read).toBeGreaterThanOrEqual(before);
    expect(read).toBeLessThanOrEqual(hostMonotonic());
  }
});
