import t from 'tap';
import type { Claim } from '../../src/core/recipients/recipients.ts';
import { Lines } from '../../src/delivery/sites/lines.ts';
import { siteOf } from '../../src/delivery/sites/providers.ts';

const site = siteOf('one.test', 'mx.hoster.test', []);

function join(lines: Lines, destination: string): void {
  const claims: Claim[] = [{ nodeId: 'node', jobId: 'job', emailId: 'email', destination, recipients: [] }];
  lines.expect(destination, claims);
  lines.arrive(destination, claims, site);
}

t.test('a site is supplied as a whole, with the destinations of its line that have nothing left here', async (t) => {
  const lines = new Lines();
  for (const destination of ['one.test', 'two.test']) join(lines, destination);
  const line = lines.get(site.name);
  t.equal(line && lines.shift(line).destination, 'one.test');
  t.strictSame(lines.supplied(() => false).sort(), ['one.test', 'two.test']);
  t.strictSame(
    lines.supplied(() => true),
    [],
  );
});

t.test('lines that were emptied keep no destinations', async (t) => {
  const lines = new Lines();
  for (const destination of ['one.test', 'two.test']) join(lines, destination);
  t.equal(lines.empty().length, 2);
  join(lines, 'two.test');
  t.strictSame(
    lines.supplied(() => false),
    ['two.test'],
  );
});
