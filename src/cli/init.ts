/**
 * PID 1 has to reap orphans, and Node waits for nothing but its own children. So in a container where the command is the
 * first process, it makes way for a shell, which reaps whatever ends while it waits, and becomes that shell's child.
 * Traps come first: the kernel keeps signals from a PID 1 that has none.
 *
 * A `wait` that a signal interrupted says nothing of the child: it is asked again while the child is there, and once
 * more when it is not, for shells that reap behind `wait`'s back (those that do not answer 127).
 */
const INIT = `
for signal in HUP INT TERM QUIT USR1 USR2; do trap "kill -$signal \\$child 2>/dev/null" $signal; done
"$@" <&0 & child=$!
while :; do
  wait $child; code=$?
  kill -0 $child 2>/dev/null && continue
  wait $child 2>/dev/null; again=$?
  [ $again -eq 127 ] || code=$again
  exit $code
done`;

type Execve = (file: string, args: readonly string[], env: NodeJS.ProcessEnv) => void;

/** Puts an init before this process where it is PID 1 and this Node can (22.15 and later). Otherwise does nothing. */
export function yieldToInit(): void {
  const { execve } = process as { readonly execve?: Execve };
  if (process.pid !== 1 || process.platform !== "linux" || execve === undefined) return;
  const self = [process.execPath, ...process.execArgv, ...process.argv.slice(1)];
  execve.call(process, "/bin/sh", ["sh", "-c", INIT, "ringfence", ...self], process.env);
}
