import type { CommandModule } from "./command-module.ts";
export const demo: CommandModule = { name: "demo", summary: "x", define() { return; } };
