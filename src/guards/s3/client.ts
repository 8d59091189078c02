import { BackendConfigError, InvalidArgumentError } from "../../core/errors.ts";

/** A client of the AWS SDK with its operations as methods: `new S3({ … })` of `@aws-sdk/client-s3`. */
export interface S3Client {
  getObject(input: { Bucket: string; Key: string }): Promise<{
    readonly ETag?: string | undefined;
    readonly Body?: { transformToByteArray(): Promise<Uint8Array> } | undefined;
  }>;
  putObject(input: {
    Bucket: string;
    Key: string;
    Body: Uint8Array;
    IfMatch?: string;
    IfNoneMatch?: string;
  }): Promise<unknown>;
  deleteObject(input: { Bucket: string; Key: string }): Promise<unknown>;
}

/** Where the objects are: a bucket of an SDK client, or a URL that a `fetch` may use. */
export type S3Place =
  | { readonly client: S3Client; readonly bucket: string }
  | {
      /** The bucket's, or any path in it. */
      readonly url: string;
      /** Sends and, where the store wants that, signs; the global `fetch` by default. */
      readonly fetch?: typeof fetch;
    };

/** An object as it was read. */
export interface Stored {
  readonly body: Uint8Array;
  readonly etag: string;
}

/** On what a write depends: nothing there yet, or this very version. */
export type Condition = "absent" | { readonly etag: string };

/** `refused`: the condition does not hold. `again`: another write was under way, this one may be sent again. */
export type Put = "done" | "refused" | "again";

/** An object store as the guard uses it. Rejects when a request fails or is not answered. */
export interface Objects {
  get(key: string): Promise<Stored | null>;
  put(key: string, body: Uint8Array, condition: Condition): Promise<Put>;
  remove(key: string): Promise<void>;
}

/** @throws InvalidArgumentError for what is neither */
export function objectsAt(place: S3Place): Objects {
  if ("client" in place) {
    if (typeof (place.client as Partial<S3Client> | null)?.putObject !== "function")
      throw new InvalidArgumentError(
        "Expected `client` to have getObject, putObject and deleteObject: `new S3(…)`, not `new S3Client(…)`.",
      );
    if (typeof place.bucket !== "string" || place.bucket === "")
      throw new InvalidArgumentError("Expected `bucket` to be the name of a bucket.");
    return sdkObjects(place.client, place.bucket);
  }
  if (typeof place.url !== "string" || !URL.canParse(place.url))
    throw new InvalidArgumentError("Expected { client, bucket } or { url } of an object store.");
  return fetchObjects(place.url.replace(/\/*$/, "/"), place.fetch ?? fetch);
}

/** What an answer to a conditional write means; `null` for any other. */
function outcomeOf(status: unknown): Put | null {
  // 404: the object that If-Match named is gone.
  if (status === 412 || status === 404) return "refused";
  return status === 409 ? "again" : null;
}

function statusOf(error: unknown): unknown {
  return (error as { readonly $metadata?: { readonly httpStatusCode?: unknown } } | null)?.$metadata
    ?.httpStatusCode;
}

function noTag(): BackendConfigError {
  return new BackendConfigError("This object store gives no ETag: it cannot compare and set", {
    operation: "get",
    outcome: "not-applied",
  });
}

function sdkObjects(client: S3Client, bucket: string): Objects {
  return {
    async get(key) {
      try {
        const { ETag: etag, Body: body } = await client.getObject({ Bucket: bucket, Key: key });
        if (etag === undefined) throw noTag();
        return { body: (await body?.transformToByteArray()) ?? new Uint8Array(), etag };
      } catch (error) {
        if (statusOf(error) === 404) return null;
        throw error;
      }
    },
    async put(key, body, condition) {
      const on = condition === "absent" ? { IfNoneMatch: "*" } : { IfMatch: condition.etag };
      try {
        await client.putObject({ Bucket: bucket, Key: key, Body: body, ...on });
        return "done";
      } catch (error) {
        const outcome = outcomeOf(statusOf(error));
        if (outcome !== null) return outcome;
        throw error;
      }
    },
    async remove(key) {
      await client.deleteObject({ Bucket: bucket, Key: key });
    },
  };
}

function fetchObjects(base: string, send: typeof fetch): Objects {
  const failed = (response: Response): Error =>
    new Error(`the object store answered ${response.status}`);
  return {
    async get(key) {
      const response = await send(base + key);
      if (response.status === 404) return null;
      if (!response.ok) throw failed(response);
      const etag = response.headers.get("etag");
      if (etag === null) throw noTag();
      return { body: new Uint8Array(await response.arrayBuffer()), etag };
    },
    async put(key, body, condition) {
      const headers: Record<string, string> =
        condition === "absent" ? { "if-none-match": "*" } : { "if-match": condition.etag };
      // A copy: a view of a larger buffer is no body in every declaration of fetch.
      const response = await send(base + key, {
        method: "PUT",
        body: Uint8Array.from(body),
        headers,
      });
      await response.arrayBuffer();
      if (response.ok) return "done";
      const outcome = outcomeOf(response.status);
      if (outcome !== null) return outcome;
      throw failed(response);
    },
    async remove(key) {
      const response = await send(base + key, { method: "DELETE" });
      await response.arrayBuffer();
      if (!response.ok && response.status !== 404) throw failed(response);
    },
  };
}
