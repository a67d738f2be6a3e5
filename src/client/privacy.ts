import type * as requests from './requests.ts';
import { Resource } from './resources.ts';
import type { CallOptions } from './transport.ts';

/** Requires an API key or a login. */
export class Erasures extends Resource {
  /** Erases what is stored about a recipient, irrevocably. The answer is the receipt, which is `pending` at first. */
  ask(body: requests.EraseRecipientBody, options?: CallOptions) {
    return this.call('eraseRecipient', { body }, options);
  }

  list(query: requests.ListErasuresQuery = {}, options?: CallOptions) {
    return this.call('listErasures', { query }, options);
  }

  get(id: string, options?: CallOptions) {
    return this.call('getErasure', { param: id }, options);
  }
}

/** Requires a login. */
export class OwnAccount extends Resource {
  /** All data of the account, as lines of JSON. If it exceeds `maxAnswerBytes`, use curl or the command instead. */
  export(query: requests.ExportAccountQuery = {}, options?: CallOptions) {
    return this.call('exportAccount', { query }, options);
  }
}
