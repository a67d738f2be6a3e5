/** A number for people, with its thousands grouped: 5,242,880. */
export const grouped = (value: number): string => value.toLocaleString('en-US');
