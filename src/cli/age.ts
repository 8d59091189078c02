/** A length of time at a glance: `350ms`, `12s`, `3m20s`, `2h05m`, `4d`. */
export function showAge(ms: number): string {
  const whole = Math.max(0, Math.round(ms));
  if (whole < 1000) return `${whole}ms`;
  const seconds = Math.round(whole / 1000);
  if (seconds < 60) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}m${two(seconds % 60)}s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours}h${two(minutes % 60)}m` : `${Math.floor(hours / 24)}d`;
}

function two(n: number): string {
  return String(n).padStart(2, "0");
}
