/**
 * Preloaded with `node --import`, makes every way out of this machine throw an error that names it: TCP connections and
 * UDP packets to other addresses, lookups through the system, and resolvers that ask anything but loopback.
 */
import dgram from 'node:dgram';
import dns from 'node:dns';
import { syncBuiltinESMExports } from 'node:module';
import net, { isIP } from 'node:net';

type Callable = (this: unknown, ...args: never[]) => unknown;
/** Any built-in object as a set of methods. */
type Patchable = Record<string, Callable | undefined>;

const loopback = /^(?:127\.\d+\.\d+\.\d+|::1|::ffff:127\.\d+\.\d+\.\d+|localhost|0\.0\.0\.0|::)$/i;

function refuse(what: string, where: unknown): void {
  const host = String(where);
  if (!loopback.test(host.replace(/^\[|\]$/g, ''))) throw new Error(`a test must not use the network: ${what} ${host}`);
}

function patch(owner: object, method: string, check: (self: unknown, args: unknown[]) => void): void {
  const methods = owner as Patchable;
  const original = methods[method];
  if (original === undefined) return;
  methods[method] = function (this: unknown, ...args: never[]) {
    check(this, args);
    return original.apply(this, args);
  };
}

/** The host from any form of the arguments of `connect`; null for a path. */
function hostOf(args: unknown[]): string | null {
  // `net.connect` passes on an array of its arguments.
  const list = Array.isArray(args[0]) ? (args[0] as unknown[]) : args;
  const [first, second] = list;
  if (typeof first === 'object' && first !== null) {
    const { host, path } = first as { host?: string; path?: string };
    return path ? null : (host ?? 'localhost');
  }
  if (typeof first === 'string' && Number.isNaN(Number(first))) return null;
  return typeof second === 'string' ? second : 'localhost';
}

patch(net.Socket.prototype, 'connect', (_self, args) => {
  const host = hostOf(args);
  if (host !== null) refuse('TCP to', host);
});

patch(dgram.Socket.prototype, 'connect', (_self, args) => {
  refuse('UDP to', typeof args[1] === 'string' ? args[1] : 'localhost');
});

patch(dgram.Socket.prototype, 'send', (_self, args) => {
  // send(msg[, offset, length], port[, address][, callback])
  const address = args.slice(1).find((argument) => typeof argument === 'string' && Number.isNaN(Number(argument)));
  refuse('UDP to', address ?? 'localhost');
});

for (const lookups of [dns, dns.promises]) {
  patch(lookups, 'lookup', (_self, [name]) => {
    if (name && isIP(String(name)) === 0) refuse('a look-up of', name);
  });
  patch(lookups, 'lookupService', (_self, [address]) => refuse('a look-up of', address));
}

const queries = Object.getOwnPropertyNames(dns.Resolver.prototype).filter((name) => /^(?:resolve|reverse)/.test(name));
const resolvers: [owner: object, servers: ((self: unknown) => string[]) | null][] = [
  [dns.Resolver.prototype, (self) => (self as dns.Resolver).getServers()],
  [dns.promises.Resolver.prototype, (self) => (self as dns.promises.Resolver).getServers()],
  [dns, () => dns.getServers()],
  [dns.promises, () => dns.promises.getServers()],
];
for (const [owner, servers] of resolvers) {
  for (const query of queries) {
    patch(owner, query, (self, [name]) => {
      for (const server of servers?.(self) ?? []) {
        const host = /^\[?([^\]]*?)\]?(?::\d+)?$/.exec(server)?.[1] ?? server;
        refuse(`a look-up of ${String(name)} by`, isIP(server) ? server : host);
      }
    });
  }
}

syncBuiltinESMExports();
