/** A domain name in the form used for comparison: lower case, no trailing dot. */
export const comparableName = (name: string) => name.toLowerCase().replace(/\.$/, '');

/** Whether two spellings name one host. */
export const sameName = (one: string, other: string) => comparableName(one) === comparableName(other);
