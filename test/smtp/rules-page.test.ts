import { readFileSync } from 'node:fs';
import t from 'tap';
import { classificationPage } from '../../scripts/classification-page.ts';

t.test('docs/classification.md says what the rules say', async (t) => {
  const page = readFileSync(new URL('../../docs/classification.md', import.meta.url), 'utf8');
  t.equal(page, classificationPage(), 'regenerate it: node scripts/run.mjs scripts/classification-page.ts');
});
