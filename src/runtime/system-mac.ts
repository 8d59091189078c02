import { createHmac, hash, timingSafeEqual } from "node:crypto";
import type { Mac } from "../core/mac.ts";

/** Node's hashes. */
export const systemMac: Mac = {
  sha256: (text) => hash("sha256", text, "base64url"),
  hmac: (secret, text) => createHmac("sha256", secret).update(text).digest("base64url"),
  equal(a, b) {
    const [left, right] = [Buffer.from(a), Buffer.from(b)];
    return left.length === right.length && timingSafeEqual(left, right);
  },
};
