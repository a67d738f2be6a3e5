import t from 'tap';
import { readConfig } from '../../src/config.ts';
import { firstScreen } from '../../src/first-screen.ts';
import { isLike } from './comparison.ts';
import { documentOf } from './reading.ts';

t.test('the README shows the screen of a first start as it is', async (t) => {
  const shown = documentOf('README.md').find(({ text }) => text.includes('Sendwright is ready'))?.text ?? '';
  const node = {
    baseUrl: 'http://localhost:3000',
    submission: { submission: 2587, submissions: 2465 },
    admin: { userId: '', accountId: '', email: 'admin@localhost', password: 'none' as const },
  };
  const screen = firstScreen(readConfig({}), node, { sandboxKey: 'sk_live_x', password: 'generated' });
  t.ok(isLike(shown.trim(), screen.trim(), new Map()), screen);
});
