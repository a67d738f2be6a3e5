import type { Family, Warming } from './pool-families.ts';
import type { WarmUpBudget } from './warm-up-budget.ts';

/** What one attempt needs of one address family of its pool. */
export interface Need {
  family: Family;
  messages: number;
  /** What was reserved for it: of which new address, and the number of its first message on that day; null: nothing. */
  reserved: { from: Warming; number: number } | null;
}

/**
 * Reserves messages of new addresses for all these needs, with one statement; there is another only if other nodes had taken
 * what seemed to be left. Each need gets all of its messages from one address, or nothing.
 */
export async function reserveAll(budget: WarmUpBudget, needs: Need[]): Promise<void> {
  const { day } = budget;
  for (let open = needs; open.length > 0; open = open.filter(({ reserved }) => reserved === null)) {
    const asked = chooseAddresses(budget, open);
    if (asked.size === 0) return;
    const asks = [...asked].map(([{ ip, cap }, some]) => ({ ip, cap, messages: messagesOf(some) }));
    const grants = await budget.reserve(asks);
    for (const [index, [from, some]] of [...asked].entries()) {
      const { granted, first } = grants[index] ?? { granted: 0, first: 1 };
      const unused = share(from, some, granted, first);
      budget.noteUnused({ ip: from.ip, day, messages: unused });
    }
    if (day !== budget.day) return;
  }
}

/** Lets others have what was reserved for these needs on this day. */
export function undoAll(budget: WarmUpBudget, needs: Need[], day: string): void {
  for (const { reserved, messages } of needs) if (reserved) budget.noteUnused({ ip: reserved.from.ip, day, messages });
}

/** Which addresses to ask for which needs: of the family, the one with the most room left. */
function chooseAddresses(budget: WarmUpBudget, needs: Need[]): Map<Warming, Need[]> {
  const asked = new Map<Warming, Need[]>();
  const roomOf = (address: Warming) => budget.room(address) - messagesOf(asked.get(address) ?? []);
  for (const need of needs) {
    const [roomiest] = need.family.warming.toSorted((a, b) => roomOf(b) - roomOf(a));
    if (roomiest && roomOf(roomiest) >= need.messages) asked.set(roomiest, [...(asked.get(roomiest) ?? []), need]);
  }
  return asked;
}

/** Gives each need in turn all that it asks for or nothing, and returns how many messages are left. */
function share(from: Warming, needs: Need[], granted: number, first: number): number {
  let left = granted;
  for (const need of needs) {
    if (need.messages > left) continue;
    need.reserved = { from, number: first + granted - left };
    left -= need.messages;
  }
  return left;
}

const messagesOf = (needs: Need[]) => needs.reduce((total, { messages }) => total + messages, 0);
