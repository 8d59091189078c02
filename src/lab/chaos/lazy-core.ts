import { connect } from "../../connect/index.ts";
import type { Driver } from "../../core/driver.ts";
import type { Held, LockClient, LockTerms } from "../clients/client.ts";
import { CoreClient, type HostProcess, type LabCapabilities } from "../clients/core-client.ts";
import type { Tamper } from "../servers/table.ts";
import type { Journal } from "./journal.ts";

/** How a manager is made over the store of a URL. */
interface CoreTerms {
  /** A planted fault. */
  readonly tamper: Tamper | undefined;
  readonly trustSettings: boolean;
}

/** The production manager over the store of a URL, loaded and connected when it is first used. */
export class LazyCore implements LockClient {
  readonly #journal: Journal;
  readonly #me: HostProcess;
  readonly #url: string;
  readonly #terms: CoreTerms;
  #core: CoreClient | undefined;

  constructor(journal: Journal, me: HostProcess, url: string, terms: CoreTerms) {
    this.#journal = journal;
    this.#me = me;
    this.#url = url;
    this.#terms = terms;
  }

  async core(): Promise<CoreClient> {
    if (this.#core !== undefined) return this.#core;
    const { tamper, trustSettings } = this.#terms;
    // The lab asks for what all of its stores have; what a URL leads to is not known to the compiler.
    const driver = (await connect(this.#url)) as Driver<LabCapabilities>;
    const wrapped: Driver<LabCapabilities> = Object.create(driver, {
      open: {
        value: async (context: Parameters<Driver["open"]>[0]) => {
          const backend = await driver.open(context);
          return tamper === undefined ? backend : tamper(backend);
        },
      },
    }) as Driver<LabCapabilities>;
    const used = tamper === undefined ? driver : wrapped;
    this.#core ??= new CoreClient(this.#journal, this.#me, used, { handOff: "off", trustSettings });
    return this.#core;
  }

  async acquire(lock: string, terms: LockTerms): Promise<Held | null> {
    return await (await this.core()).acquire(lock, terms);
  }

  async resume(exported: string, lock: string, terms: LockTerms): Promise<Held | null> {
    return await (await this.core()).resume(exported, lock, terms);
  }
}
