import { expect, it } from "vitest";
import { InvalidArgumentError, type LockManager } from "../../src/index.ts";
import { World } from "../fixtures/world.ts";

it("a listener for an event that there is not is refused, with the names that there are", () => {
  const manager = new World().manager() as LockManager;
  expect(() => manager.on("typo" as "lost", () => undefined)).toThrow(InvalidArgumentError);
  expect(() => manager.on("typo" as "lost", () => undefined)).toThrow(/"lost"/);
  expect(() => manager.on("lost", undefined as unknown as () => void)).toThrow(
    InvalidArgumentError,
  );
});

it.each([
  "requested",
  "acquired",
  "releasing",
  "released",
  "renewed",
  "lost",
  "jeopardy",
  "safe",
  "waiting",
  "revoked",
  "refused",
] as const)("%s can be listened to", (name) => {
  const off = new World().manager().on(name, () => undefined);
  off();
});
