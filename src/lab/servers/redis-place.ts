import type { Driver } from "../../core/driver.ts";
import { redisOver } from "../../drivers/redis/driver.ts";
import type { RedisDriverOptions } from "../../drivers/redis/options.ts";
import type { LabCapabilities } from "../clients/core-client.ts";
import type { SimProcess } from "../sim/process.ts";
import type { World } from "../sim/world.ts";
import type { LockPlace } from "./place.ts";
import type { AppendOnly } from "./redis.ts";
import { simDialer } from "./redis-lock-link.ts";
import { RedisLockServer } from "./redis-lock-server.ts";
import type { Tamper } from "./table.ts";
import { ServerTrace } from "./trace.ts";

export interface RedisPlaceOptions {
  readonly replicas?: number;
  readonly appendOnly?: AppendOnly;
  /** Somebody used the driver's scripts before. */
  readonly warm?: boolean;
  readonly driver?: RedisDriverOptions;
  /** Between the driver and the core: a planted fault. */
  readonly tamper?: Tamper;
}

/** One Redis, or a primary with replicas that somebody promotes, and the production driver over it. */
export class RedisPlace implements LockPlace {
  readonly name: string;
  /** The first leads. */
  readonly servers: RedisLockServer[];
  readonly #world: World;
  readonly #options: RedisPlaceOptions;
  readonly #trace: ServerTrace;

  constructor(world: World, options: RedisPlaceOptions = {}) {
    const { replicas = 0, appendOnly = "no", warm = false } = options;
    this.#world = world;
    this.#options = options;
    const trace = new ServerTrace(world, () => this.primary.process);
    const server = (i: number): RedisLockServer =>
      new RedisLockServer(world, replicas === 0 ? "S" : `S${i + 1}`, {
        leads: i === 0,
        appendOnly,
        warm,
        trace: () => trace,
      });
    this.servers = Array.from({ length: 1 + replicas }, (_, i) => server(i));
    for (const replica of this.servers.slice(1)) this.primary.replicateTo(replica);
    this.name = this.primary.name;
    this.#trace = trace;
  }

  get primary(): RedisLockServer {
    const [first] = this.servers;
    if (first === undefined) throw new RangeError("no Redis is left");
    return first;
  }

  /** The primary dies for good, and its first replica takes over with what it has heard. */
  failOver(): void {
    const old = this.servers.shift();
    old?.kill();
    const { primary } = this;
    primary.leads = true;
    for (const replica of this.servers.slice(1)) primary.replicateTo(replica);
    this.#trace.forget((lock, grant) => primary.has(lock, grant));
  }

  /** The primary dies, its first replica takes over, and the dead one comes back as its replica. */
  switchOver(): void {
    const old = this.primary;
    this.failOver();
    old.follow(this.primary);
    this.servers.push(old);
  }

  startClient(name: string): SimProcess {
    return this.#world.start(name);
  }

  /** Every mode, and tokens unless the driver's options say otherwise. */
  driverFor(client: SimProcess): Driver<LabCapabilities> {
    const dialer = simDialer(this.#world, client, () => this.primary);
    const afterTurn = (fn: () => void): void => {
      this.#world.scheduler.after(0, () => {
        client.goOn(fn);
      });
    };
    const driver = redisOver(async () => dialer, afterTurn, this.#options.driver);
    const { tamper } = this.#options;
    if (tamper === undefined) return driver as Driver<LabCapabilities>;
    return {
      ...(driver as Driver<LabCapabilities>),
      open: async (context) => tamper(await driver.open(context)),
    };
  }
}
