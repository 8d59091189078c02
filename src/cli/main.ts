#!/usr/bin/env node
import { fileURLToPath } from "node:url";
import type * as commandLineModule from "./command-line.ts";
import { loadCompiled } from "./compiled.ts";
import { shortenReport } from "./libc.ts";

// As scripts/bundle.mjs makes it: one file with all that `ringfence run` needs.
const bundle = loadCompiled(fileURLToPath(new URL("./command-line.cjs", import.meta.url)));
const { commandLine } = bundle.exports as typeof commandLineModule;

shortenReport();
void commandLine(process.argv.slice(2), process.env).then((code) => process.exit(code));
