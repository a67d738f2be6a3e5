import { syncBuiltinESMExports } from 'node:module';
import os, { type NetworkInterfaceInfo } from 'node:os';
import t, { type Test } from 'tap';
import { routesTo, steadySources } from '../../src/smtp/connections/routes.ts';

const [v4, v6, local] = ['8.8.8.8', '2606:4700::1111', 'fd00::25'];
const addressesOf = (routes: ReturnType<typeof routesTo>) => routes.map(({ address }) => address);

/** Makes this machine one with these addresses. */
function haveAddresses(t: Test, addresses: string[]): void {
  const before = os.networkInterfaces;
  const info = (address: string) =>
    ({ address, family: address.includes(':') ? 'IPv6' : 'IPv4', internal: address === '::1' }) as NetworkInterfaceInfo;
  os.networkInterfaces = () => ({ eth0: addresses.map(info) });
  syncBuiltinESMExports();
  t.teardown(() => {
    os.networkInterfaces = before;
    syncBuiltinESMExports();
  });
}

t.test('without IPv6 here, public IPv6 addresses are left out unless a host has no others', async (t) => {
  haveAddresses(t, ['192.0.2.1', '::1', 'fe80::1']);
  t.strictSame(addressesOf(routesTo([v6, v4], [])), [v4]);
  t.strictSame(addressesOf(routesTo([local, v4], [])), [local, v4], 'those of our own network are not');
  t.strictSame(routesTo([v6], []), [{ address: v6, localAddress: undefined }], 'the attempt says what is wrong');
});

t.test('with IPv6 here, the order stays', async (t) => {
  haveAddresses(t, ['192.0.2.1', '2001:db8::1']);
  t.strictSame(addressesOf(routesTo([v6, v4], [])), [v6, v4]);
});

t.test('each address is reached from the first sending address of its family', async (t) => {
  haveAddresses(t, ['192.0.2.1']);
  t.strictSame(routesTo([v6, v4], ['192.0.2.7', '192.0.2.8', '2001:db8::7']), [
    { address: v6, localAddress: '2001:db8::7' },
    { address: v4, localAddress: '192.0.2.7' },
  ]);
  t.strictSame(routesTo([v6, v4], ['192.0.2.7']), [{ address: v4, localAddress: '192.0.2.7' }]);
  t.strictSame(routesTo([v6], ['192.0.2.7']), []);
});

t.test('a sender keeps its addresses, one of each family, and only those of a removed one move', async (t) => {
  t.strictSame(steadySources([], 'a@b.test'), []);
  t.strictSame(steadySources(['2001:db8::1', '192.0.2.1'], 'a@b.test'), ['2001:db8::1', '192.0.2.1']);
  t.strictSame(steadySources(['192.0.2.1'], 'a@b.test'), ['192.0.2.1']);
  t.equal(steadySources(['192.0.2.1', '192.0.2.2'], 'a@b.test').length, 1);
  const four = ['192.0.2.1', '192.0.2.2', '192.0.2.3', '192.0.2.4'];
  const six = ['2001:db8::1', '2001:db8::2'];
  const senders = Array.from({ length: 400 }, (_, n) => `sender${n}@b.test`);
  const before = senders.map((sender) => steadySources([...six, ...four], sender));
  for (const own of before) t.match(own, [/^192\./, /^2001:/]);
  for (const ip of four) t.ok(before.filter(([first]) => first === ip).length > 50, `${ip} has its share`);
  const after = senders.map((sender) => steadySources([...four.slice(0, 3), ...six], sender));
  for (const [at, own] of before.entries()) {
    if (own[0] === '192.0.2.4') t.not(after[at]?.[0], '192.0.2.4');
    else t.strictSame(after[at], own);
  }
});
