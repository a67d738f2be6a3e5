import { Tabs } from '@mantine/core';
import { useLocalStorage } from '@mantine/hooks';
import { useSession } from '../data/session.ts';
import { firstEmail, type Language, languages } from '../words/first-email.ts';
import { Command } from './copy.tsx';

/** A first email to paste, in the language that was chosen last. */
export function FirstEmail({ from, apiKey }: { from?: string | undefined; apiKey?: string | undefined }) {
  const session = useSession();
  const [chosen, choose] = useLocalStorage<Language>({
    key: 'sendwright-language',
    defaultValue: 'curl',
    getInitialValueInEffect: false,
    deserialize: (text) => languages.find((language) => language === text) ?? 'curl',
    serialize: (language) => language,
  });
  return (
    <Tabs value={chosen} onChange={(language) => language && choose(language as Language)} keepMounted={false}>
      <Tabs.List aria-label="Language">
        {languages.map((language) => (
          <Tabs.Tab key={language} value={language}>
            {language}
          </Tabs.Tab>
        ))}
      </Tabs.List>
      {languages.map((language) => (
        <Tabs.Panel key={language} value={language} pt="xs">
          <Command
            text={firstEmail(session, from, apiKey, language)}
            what={language === 'curl' ? 'the command' : 'the program'}
          />
        </Tabs.Panel>
      ))}
    </Tabs>
  );
}
