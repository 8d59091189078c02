#!/usr/bin/env node
import { commandLine } from "./command-line.ts";

process.exit(await commandLine(process.argv.slice(2), process.env));
