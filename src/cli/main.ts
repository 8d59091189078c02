#!/usr/bin/env node
import { join } from "node:path";
import type * as commandLineModule from "./command-line.ts";
import { loadCompiled } from "./compiled.ts";

// As scripts/bundle.mjs makes it: one file with all that `ringfence run` needs.
const bundle = loadCompiled(join(import.meta.dirname, "command-line.cjs"));
const { commandLine } = bundle.exports as typeof commandLineModule;

void commandLine(process.argv.slice(2), process.env).then((code) => process.exit(code));
