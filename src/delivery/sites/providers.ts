import { getDomain } from 'tldts';

/** An operator of mail exchangers, and how much mail it gets from all our nodes together. */
export interface Provider {
  /** What people call it. */
  name: string;
  /** The ends of its MX hosts' names, such as `google.com`. */
  mx: string[];
  /** Most connections at once. The actual number follows what the servers bear. */
  connections: number;
  /** Messages a minute; null: as many as the connections carry. */
  perMinute: number | null;
  /** Most messages over one connection; null: 100. */
  perConnection: number | null;
}

/**
 * Well-known providers, with limits that are careful rather than fast: a sender without a history is watched.
 * PROVIDERS_FILE puts others before these.
 */
const known: Omit<Provider, 'perMinute' | 'perConnection'>[] = [
  { name: 'Google', mx: ['google.com', 'googlemail.com', 'smtp.goog'], connections: 20 },
  { name: 'Microsoft', mx: ['outlook.com', 'mx.microsoft', 'hotmail.com'], connections: 20 },
  { name: 'Yahoo', mx: ['yahoodns.net'], connections: 10 },
  { name: 'Apple', mx: ['icloud.com', 'apple.com'], connections: 10 },
  { name: 'GMX and WEB.DE', mx: ['gmx.net', 'web.de'], connections: 10 },
  {
    name: 'IONOS',
    mx: ['kundenserver.de', 'ionos.de', 'ionos.com', '1and1.com', 'perfora.net'],
    connections: 10,
  },
  { name: 'T-Online', mx: ['t-online.de'], connections: 5 },
  { name: 'Orange', mx: ['orange.fr', 'wanadoo.fr'], connections: 3 },
  { name: 'Free', mx: ['free.fr'], connections: 3 },
  { name: 'La Poste', mx: ['laposte.net'], connections: 3 },
  { name: 'Comcast', mx: ['comcast.net'], connections: 10 },
  { name: 'Mail.ru', mx: ['mail.ru'], connections: 10 },
  { name: 'Yandex', mx: ['yandex.net', 'yandex.ru'], connections: 10 },
  { name: 'Tencent', mx: ['qq.com'], connections: 5 },
  { name: 'NetEase', mx: ['netease.com', '163.com', '126.com'], connections: 5 },
  { name: 'Proofpoint', mx: ['pphosted.com', 'ppe-hosted.com'], connections: 20 },
  { name: 'Mimecast', mx: ['mimecast.com'], connections: 20 },
  { name: 'Barracuda', mx: ['barracudanetworks.com'], connections: 20 },
];

const unlimited = { perMinute: null, perConnection: null };
export const wellKnown: readonly Provider[] = known.map((one) => ({ ...one, ...unlimited }));

const anybody = { connections: 20, ...unlimited };

/** The operator whose servers take a destination's mail: all destinations of a site are limited together. */
export interface Site extends Omit<Provider, 'mx'> {
  /** That of a provider, the registrable domain of the MX hosts, or a destination: see `siteOf`. */
  name: string;
}

/**
 * The site of a destination, by its best MX host: a provider's name, the host's registrable domain, or the destination
 * itself if no host is known.
 */
export function siteOf(destination: string, bestHost: string | null, providers: readonly Provider[]): Site {
  if (bestHost === null) return { name: destination, ...anybody };
  const provider = providers.find(({ mx }) => mx.some((end) => bestHost === end || bestHost.endsWith(`.${end}`)));
  if (provider) {
    const { mx: _, ...site } = provider;
    return site;
  }
  return { name: getDomain(bestHost, { allowPrivateDomains: true }) ?? bestHost, ...anybody };
}
