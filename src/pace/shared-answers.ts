/** What is kept, and for how long. */
export interface SharedAnswersLimits<Answer> {
  /** How often the time that it took to work an answer out is the time that it is kept. */
  times: number;
  /** The weight of an answer, and the most that those which are kept weigh together. */
  weigh: (answer: Answer) => number;
  most: number;
}

interface Kept<Answer> {
  answer: Promise<Answer>;
  /** In ms, by a clock that never goes back; not known before it is worked out. */
  until: number;
  weight: number;
}

/**
 * Answers that take long to work out. Whoever asks the same while one is being worked out gets that one, and whoever asks later
 * gets it too, for a multiple of the time that it took: so only a small part of the time is spent on one question, however many
 * ask it again and again. What fails is not kept.
 */
export class SharedAnswers<Answer> {
  readonly #limits: SharedAnswersLimits<Answer>;
  /** By question; those whose work began last are the last. */
  readonly #kept = new Map<string, Kept<Answer>>();

  constructor(limits: SharedAnswersLimits<Answer>) {
    this.#limits = limits;
  }

  /**
   * @param inTurn may let the work wait, which is no part of the time that it takes
   * @throws what `work` throws, to all who wait for it
   */
  get(
    question: string,
    work: () => Promise<Answer>,
    inTurn: (work: () => Promise<Answer>) => Promise<Answer> = (work) => work(),
  ): Promise<Answer> {
    let began = performance.now();
    const known = this.#kept.get(question);
    if (known && began < known.until) return known.answer;
    const begin = () => {
      began = performance.now();
      return work();
    };
    const kept: Kept<Answer> = { answer: inTurn(begin), until: Number.POSITIVE_INFINITY, weight: 0 };
    this.#kept.delete(question);
    this.#kept.set(question, kept);
    kept.answer.then(
      (answer) => {
        const ended = performance.now();
        kept.until = ended + (ended - began) * this.#limits.times;
        kept.weight = this.#limits.weigh(answer);
        this.#makeRoom(ended);
      },
      () => this.#kept.delete(question),
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
