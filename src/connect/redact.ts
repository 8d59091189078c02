/** Parameters of a store URL whose value is a secret. */
const SECRET = /(pass(word|wd)?|secret|token|credential|key)/i;
/** One server of a list, as it should be written: scheme, user, password, host and port, path. */
const SERVER =
  /^((?:(?:[a-z][a-z0-9+.-]*:){1,2}\/\/)?)(?:([^:@/,]*)(:[^:@/,]*)?@)?([^:@/,]*(?::\d+)?(?:\/[^@,]*)?)$/i;

/**
 * A store URL as it may be shown: passwords and the values of secret parameters become `***`. A URL is shown most often
 * because it is wrong, so in one that cannot be read exactly everything before the last `@` goes.
 */
export function redactUrl(url: string): string {
  // A path of SQLite may hold an @; it has no servers.
  if (/^sqlite:(?!\/\/)/i.test(url)) return redactQuery(url);
  // A raw ? in a password does not begin the query.
  const end = url.indexOf("?", url.lastIndexOf("@") + 1);
  const [servers, query] = end < 0 ? [url, ""] : [url.slice(0, end), url.slice(end)];
  return redactServers(servers) + redactQuery(query);
}

/** Whether the URL carries a password or another secret. */
export function hasSecret(url: string): boolean {
  return redactUrl(url) !== url;
}

function redactServers(servers: string): string {
  const last = servers.lastIndexOf("@");
  if (last < 0) return servers;
  const parts = servers.split(",");
  if (!parts.every((part) => SERVER.test(part)))
    return `${/^[a-z][a-z0-9+.-]*:/i.exec(servers)?.[0] ?? ""}***${servers.slice(last)}`;
  return parts
    .map((part) =>
      part.replace(SERVER, (_, start: string, user?: string, password?: string, rest = "") =>
        user === undefined
          ? `${start}${String(rest)}`
          : `${start}${user}${password === undefined ? "" : ":***"}@${String(rest)}`,
      ),
    )
    .join(",");
}

function redactQuery(query: string): string {
  if (!query.includes("=")) return query;
  return query.replace(/([?&;]([^=&;#\s]+)=)([^&;#\s]*)/g, (whole, start: string, name: string) =>
    SECRET.test(name) ? `${start}***` : whole,
  );
}
