/** One thing that `sendwright` can be asked to do. */
export interface Command {
  /** One line, without a full stop. */
  summary: string;
  help: string;
  /**
   * @param say tells the operator one thing, in a line or a few
   * @throws ConfigError or StartError, one line for the operator; anything else is a defect of ours
   */
  run(env: Record<string, string | undefined>, say: (sentence: string) => void): Promise<void>;
}
