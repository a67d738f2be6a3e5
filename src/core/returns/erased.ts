/** Replaces an erased recipient's address: it is not an address itself, and differs for each recipient of an email. */
export const markOf = (position: number): string => `erased-${position + 1}`;

/** Replaces the address where the email and the recipient are not known. */
export const namelessMark = 'erased';

/** Whether an erased address was here. */
export const isErased = (address: string): boolean => /^erased-\d+$/.test(address);
