export type { Driver } from "./core/driver.ts";
