/** A domain name as names are compared: in lower case, without the dot that stands for the root. */
export const comparableName = (name: string) => name.toLowerCase().replace(/\.$/, '');

export const sameName = (one: string, other: string) => comparableName(one) === comparableName(other);
