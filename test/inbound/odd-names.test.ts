import t from 'tap';
import { bounce, complaint, returnPath, startReturns } from './returned.ts';

t.test('DOS-05: a bounce whose fields are named like members of Object.prototype is read like any other', async (t) => {
  const scene = await startReturns(t);
  const names = ['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', '__defineGetter__', 'valueOf'];
  const fields = names.map((name) => `${name}: polluted\n${name}.polluted: yes\n`).join('');
  const parameters = names.map((name) => `${name}=polluted`).join('; ');
  const odd: Record<string, string> = {
    'in the header': `${fields}${bounce({})}`,
    'in the header, again and again': `${fields.repeat(50)}${bounce({})}`,
    'in the parameters': bounce({}).replace('boundary=b', `boundary=b; ${parameters}`),
    'in the report': bounce({}).replace('Reporting-MTA:', `${fields}Reporting-MTA:`),
    'in the group of the recipient': bounce({}).replace('Action:', `${fields}Action:`),
    'in a part': bounce({}).replace('Content-Type: text/plain', `${fields}Content-Type: text/plain; ${parameters}`),
  };
  for (const [what, message] of Object.entries(odd)) {
    const { send, read, suppressed } = await scene.sender();
    const id = await send('jane@example.com');
    t.match(await scene.deliver(returnPath(id), message), /^250 /, what);
    t.match((await read(id)).returns, [{ recipient: 'jane@example.com' }], what);
    t.strictSame(await suppressed(), ['jane@example.com bounce'], what);
  }
  const { send, suppressed } = await scene.sender();
  const id = await send('jane@example.com');
  t.match(await scene.deliver(returnPath(id), complaint(`${fields}X: y`, fields.trimEnd())), /^250 /);
  t.strictSame(await suppressed(), ['jane@example.com complaint']);
  for (const made of [{}, [], () => {}]) t.notOk('polluted' in made);
});
