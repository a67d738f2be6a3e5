import { createTheme, type MantineColorsTuple } from '@mantine/core';

const indigo: MantineColorsTuple = [
  '#eef1fd',
  '#dbe1f8',
  '#b3c0ef',
  '#899de6',
  '#667fde',
  '#506cda',
  '#3f5bd0',
  '#3451c9',
  '#2a43a8',
  '#1f3388',
];

/** White text is readable on the shades that buttons use, 6 and 7; the library's are lighter. */
const red: MantineColorsTuple = [
  '#fff5f5',
  '#ffe3e3',
  '#ffc9c9',
  '#ffa8a8',
  '#ff8787',
  '#ff6b6b',
  '#d13434',
  '#c42b2b',
  '#b42323',
  '#961d1d',
];

/** The library's dark grays, matched to the stylesheet. */
const dark: MantineColorsTuple = [
  '#d6dae2',
  '#b4b9c4',
  '#9198a6',
  '#656b78',
  '#353941',
  '#262930',
  '#1c1f25',
  '#16181d',
  '#101216',
  '#0b0d10',
];

export const theme = createTheme({
  primaryColor: 'indigo',
  colors: { indigo, red, dark },
  primaryShade: { light: 7, dark: 6 },
  fontFamily: 'ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", sans-serif',
  fontFamilyMonospace:
    'ui-monospace, "SF Mono", "Cascadia Mono", "JetBrains Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace',
  fontSizes: { xs: '12px', sm: '13px', md: '14px', lg: '16px', xl: '20px' },
  defaultRadius: 6,
  cursorType: 'pointer',
  respectReducedMotion: true,
  components: {
    Button: { defaultProps: { size: 'xs' } },
    ActionIcon: { defaultProps: { variant: 'subtle', color: 'gray', size: 'md' } },
    TextInput: { defaultProps: { size: 'xs', withAsterisk: false } },
    Textarea: { defaultProps: { size: 'xs' } },
    // What is refused is read out when it appears.
    InputWrapper: { defaultProps: { errorProps: { role: 'alert' } } },
    PasswordInput: {
      defaultProps: {
        size: 'sm',
        withAsterisk: false,
        visibilityToggleFocusable: true,
        visibilityToggleButtonProps: { 'aria-label': 'Show the password' },
      },
    },
    NativeSelect: { defaultProps: { size: 'xs' } },
    SegmentedControl: { defaultProps: { size: 'xs', transitionDuration: 0 } },
    Modal: { defaultProps: { centered: true, transitionProps: { duration: 0 } } },
    Tooltip: { defaultProps: { openDelay: 300, transitionProps: { duration: 0 }, fz: 12 } },
  },
});
