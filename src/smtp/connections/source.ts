import { createSocket } from 'node:dgram';
import { isPublicAddress } from '../../ip.ts';

/**
 * The public source addresses of the default routes, found without sending anything. Empty behind a NAT, where the
 * address that receivers see cannot be known from here.
 */
export async function publicSourceAddresses(): Promise<string[]> {
  const [v4, v6] = await Promise.all([routeTo('udp4', '192.0.2.1'), routeTo('udp6', '2001:db8::1')]);
  return [v4, v6].filter((address): address is string => address !== null && isPublicAddress(address));
}

/** Connecting a datagram socket sends nothing; it only selects the route. */
function routeTo(type: 'udp4' | 'udp6', destination: string): Promise<string | null> {
  return new Promise((resolve) => {
    const socket = createSocket(type);
    const done = (address: string | null) => {
      socket.close();
      resolve(address);
    };
    socket.once('error', () => done(null));
    // No callback of `connect`: it would be called without a route too, which then is no event.
    socket.once('connect', () => done(socket.address().address));
    socket.connect(53, destination);
  });
}
