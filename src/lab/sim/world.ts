import type { History } from "../history.ts";
import { type Choices, randomChoices } from "./choices.ts";
import { Machine, type MachineOptions } from "./machine.ts";
import { Network, type Weather } from "./network.ts";
import { Probe } from "./probe.ts";
import { SimProcess } from "./process.ts";
import { Scheduler } from "./scheduler.ts";

/** What a world is made from. */
export interface WorldOptions {
  readonly seed: number;
  readonly choices?: Choices;
  readonly weather?: Weather;
  readonly history?: History | null;
  /** Microtask turns between events. */
  readonly turns?: number;
}

/** A deterministic world: virtual time, machines, processes, links, and the probe that records what happens. */
export class World {
  readonly seed: number;
  readonly choices: Choices;
  readonly scheduler: Scheduler;
  readonly net: Network;
  readonly probe: Probe;
  readonly #processes = new Map<string, SimProcess>();
  readonly #asleep = new Map<Machine, readonly SimProcess[]>();

  constructor(options: WorldOptions) {
    this.seed = options.seed;
    this.choices = options.choices ?? randomChoices(options.seed);
    this.scheduler = new Scheduler(options.turns);
    this.net = new Network(this.scheduler, this.choices, options.weather);
    this.probe = new Probe(this.scheduler, options.history ?? null);
  }

  get now(): number {
    return this.scheduler.now;
  }

  /** Starts a process on a machine of its own, or on `machine`. The next of the same name is its next incarnation. */
  start(name: string, where: Machine | MachineOptions = {}): SimProcess {
    const before = this.#processes.get(name);
    const machine =
      where instanceof Machine
        ? where
        : (before?.machine ?? new Machine(name, this.scheduler, where));
    const incarnation = before === undefined ? 0 : before.incarnation + 1;
    const process = new SimProcess(machine, this.scheduler, { name, incarnation, seed: this.seed });
    this.#processes.set(name, process);
    if (before !== undefined) this.probe.world("fault.start", { p: name, inc: incarnation });
    return process;
  }

  /** The process that has this name now. @throws RangeError */
  process(name: string): SimProcess {
    const process = this.#processes.get(name);
    if (process === undefined) throw new RangeError(`No process ${name} in this world.`);
    return process;
  }

  pause(name: string): void {
    const process = this.process(name);
    if (!process.stopped) this.probe.world("fault.pause", { p: name, inc: process.incarnation });
    process.pause();
  }

  resume(name: string): void {
    const process = this.process(name);
    if (process.resume()) this.probe.world("fault.resume", { p: name, inc: process.incarnation });
  }

  kill(name: string): void {
    const process = this.process(name);
    if (!process.alive) return;
    process.kill();
    this.probe.world("fault.kill", { p: name, inc: process.incarnation });
  }

  /** Closes the lid: the monotonic clock of a process's machine stands still, and every process on it. */
  suspend(name: string): void {
    const { machine } = this.process(name);
    machine.sleep();
    const asleep = this.#on(machine);
    this.#asleep.set(machine, asleep);
    for (const process of asleep) this.pause(process.name);
  }

  unsuspend(name: string): void {
    const { machine } = this.process(name);
    machine.wake();
    for (const process of this.#asleep.get(machine) ?? [])
      if (this.#processes.get(process.name) === process) this.resume(process.name);
    this.#asleep.delete(machine);
  }

  /**
   * Takes the power from a machine: everything on it dies. It boots again at once, its wall clock off by `wallMs`; what of
   * its disk is left is the disk's business.
   */
  powerOff(machine: Machine, wallMs = 0): void {
    for (const { name } of this.#on(machine)) this.kill(name);
    this.#asleep.delete(machine);
    machine.reboot(wallMs);
    this.probe.world("fault.net", { err: `power of ${machine.name} lost` });
  }

  #on(machine: Machine): SimProcess[] {
    return [...this.#processes.values()].filter(
      (process) => process.machine === machine && process.alive,
    );
  }

  /** Moves a machine's wall clock. */
  step(name: string, ms: number): void {
    this.process(name).machine.step(ms);
    this.probe.world("fault.net", { err: `wall clock of ${name} ${ms >= 0 ? "+" : ""}${ms} ms` });
  }

  /** Changes the speed of a machine's clocks. */
  drift(name: string, rate: number): void {
    const { machine } = this.process(name);
    machine.drift(rate);
    this.probe.world("fault.clock", { p: name, rate, lt: Math.round(machine.boot() * 1e6) });
  }

  /** Cuts the line between two. */
  cut(a: string, b: string, how: "stall" | "lose", oneWay = false): void {
    this.net.cut(a, b, how, oneWay);
    this.probe.world("fault.net", { err: `${a} ${oneWay ? "→" : "↔"} ${b} cut (${how})` });
  }

  /** Ends every fault of links and processes. */
  heal(): void {
    this.net.heal();
    for (const [name, process] of this.#processes) {
      if (process.machine.sleeps) process.machine.wake();
      while (process.stopped) this.resume(name);
    }
    this.probe.world("heal");
  }

  async run(untilMs: number, enough?: () => boolean): Promise<void> {
    await this.scheduler.run(untilMs, enough);
  }
}
