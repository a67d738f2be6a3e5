import type * as requests from './requests.ts';
import { Resource } from './resources.ts';
import type { CallOptions } from './transport.ts';

/** With an API key or a login. */
export class Erasures extends Resource {
  /** Erases what is stored about a recipient. It cannot be taken back; the answer is the receipt, which is `pending` at first. */
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

/** With a login. */
export class OwnAccount extends Resource {
  /** All that the account has, as lines of JSON. A large account has more than `maxAnswerBytes`: get it with curl, or by the command. */
  export(query: requests.ExportAccountQuery = {}, options?: CallOptions) {
    return this.call('exportAccount', { query }, options);
  }
}
