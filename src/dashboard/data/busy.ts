import { notifications } from '@mantine/notifications';

/** Shorter waits nobody notices; after longer ones the call has failed instead, which the page says. */
const [leastNoticedS, longestS] = [2, 60];

/** Says that the server asks to wait, as the page shows nothing new until its call is repeated. */
export function noteBusy({ status, headers }: Response): void {
  if (status !== 429 && status !== 503) return;
  const seconds = Number(headers.get('Retry-After'));
  if (!(seconds >= leastNoticedS && seconds <= longestS)) return;
  notifications.hide('busy');
  notifications.show({
    id: 'busy',
    message: `The server is busy, and asks to wait ${seconds} s. It is asked again then.`,
    loading: true,
    autoClose: seconds * 1_000,
  });
}
