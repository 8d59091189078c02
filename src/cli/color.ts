import { isatty } from "node:tty";

/** Whether to colour a stream: FORCE_COLOR says yes, NO_COLOR and TERM=dumb say no, otherwise only on a terminal. */
export function wantsColor(fd: 1 | 2, env: NodeJS.ProcessEnv = process.env): boolean {
  const forced = env["FORCE_COLOR"];
  if (forced !== undefined) return forced !== "0" && forced !== "false";
  if ((env["NO_COLOR"] ?? "") !== "" || env["TERM"] === "dumb") return false;
  return isatty(fd);
}
