import { clientGone } from '../errors.ts';

/** What is kept, and for how long. */
export interface SharedAnswersLimits<Answer> {
  /** How often the time that it took to work an answer out is the time that it is kept. */
  times: number;
  /** The weight of an answer, and the most that those which are kept weigh together. */
  weigh: (answer: Answer) => number;
  most: number;
}

/** How an answer is worked out for somebody. */
export interface Asking<Answer> {
  /** May let the work wait, which is no part of the time that it takes. */
  inTurn?: (work: () => Promise<Answer>) => Promise<Answer>;
  /** Whether this one does not wait for the answer any more. */
  hasLeft?: () => boolean;
}

interface Kept<Answer> {
  answer: Promise<Answer>;
  askers: Askers;
  /** In ms, by a clock that never goes back; not known before it is worked out. */
  until: number;
  weight: number;
}

/** Who waits for work to begin. */
class Askers {
  /** Of each, whether it has left; null once the work has begun. */
  #all: (() => boolean)[] | null = [];

  add(hasLeft: () => boolean): void {
    this.#all?.push(hasLeft);
  }

  /** The work may begin: from now on it does not matter who is there. @returns whether anybody is */
  begin(): boolean {
    const isWanted = this.#all?.some((hasLeft) => !hasLeft()) === true;
    this.#all = null;
    return isWanted;
  }
}

/**
 * Answers that take long to work out. Whoever asks the same while one is being worked out gets that one, and whoever asks later
 * gets it too, for a multiple of the time that it took: so only a small part of the time is spent on one question, however many
 * ask it again and again. What fails is not kept, and what had to wait until all who asked have left is not worked out.
 */
export class SharedAnswers<Answer> {
  readonly #limits: SharedAnswersLimits<Answer>;
  /** By question; those whose work began last are the last. */
  readonly #kept = new Map<string, Kept<Answer>>();

  constructor(limits: SharedAnswersLimits<Answer>) {
    this.#limits = limits;
  }

  /** @throws what `work` throws, to all who wait for it; ApiError 499 if all of them have left when its turn comes */
  get(
    question: string,
    work: () => Promise<Answer>,
    { inTurn = (work) => work(), hasLeft = () => false }: Asking<Answer> = {},
  ): Promise<Answer> {
    let began = performance.now();
    const known = this.#kept.get(question);
    if (known && began < known.until) {
      known.askers.add(hasLeft);
      return known.answer;
    }
    const askers = new Askers();
    askers.add(hasLeft);
    const begin = async () => {
      if (!askers.begin()) {
        // At once: whoever asks from now on does not get this error.
        this.#kept.delete(question);
        throw clientGone();
      }
      began = performance.now();
      return work();
    };
    const kept: Kept<Answer> = { answer: inTurn(begin), askers, until: Number.POSITIVE_INFINITY, weight: 0 };
    this.#kept.delete(question);
    this.#kept.set(question, kept);
    kept.answer.then(
      (answer) => {
        const ended = performance.now();
        kept.until = ended + (ended - began) * this.#limits.times;
        kept.weight = this.#limits.weigh(answer);
        this.#makeRoom(ended);
      },
      () => {
        // What was asked again meanwhile is another one.
        if (this.#kept.get(question) === kept) this.#kept.delete(question);
      },
    );
    return kept.answer;
  }

  #makeRoom(now: number): void {
    for (const [question, { until }] of this.#kept) if (until <= now) this.#kept.delete(question);
    let weight = [...this.#kept.values()].reduce((sum, kept) => sum + kept.weight, 0);
    for (const [question, kept] of this.#kept) {
      if (weight <= this.#limits.most) break;
      // What is being worked out weighs nothing yet, and others wait for it.
      if (kept.weight === 0) continue;
      this.#kept.delete(question);
      weight -= kept.weight;
    }
  }
}
